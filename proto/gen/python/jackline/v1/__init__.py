"""Package jackline.v1, generated from proto/jackline/v1; never edited."""
