"""What race needs from outside, one SDK to a module; foreign errors stop here."""
