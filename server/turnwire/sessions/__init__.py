"""Sessions: order, live projection, channel, Turns and recovery. Knows no WebSocket and no SQL."""
