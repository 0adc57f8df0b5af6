"""The video room, the only one that imports av: pictures become files, and files pictures by frame index."""
