-- The commit at which the integration branch was left: by the last merge, or where it was made. Null before there is one.
ALTER TABLE team ADD COLUMN landed TEXT;
