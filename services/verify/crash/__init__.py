"""`millrace verify crash`: a real broker, real engine processes that die or lose their broker, and the oracle's judgement."""
