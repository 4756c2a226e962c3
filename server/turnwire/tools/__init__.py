"""Tools: functions that a model may call, what they take, and what comes of a call. Knows no Session."""
