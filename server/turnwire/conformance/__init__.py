"""The conformance pack: timelines (`protocol/vectors/timelines`) played against any server or any client.

It speaks the wire like everybody else and knows nothing of how the server beside it works.
"""
