"""What every Turnwire peer shares: shapes, codecs, tables and the client's merge algorithm. No I/O."""
