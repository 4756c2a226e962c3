-- Version 3: requests are remembered for a time only (S9), and found by their age.

CREATE INDEX requests_by_age ON requests (created_at);
