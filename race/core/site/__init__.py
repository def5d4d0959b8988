"""What the site shows, worked out from records and runs: values in, page contents out."""
