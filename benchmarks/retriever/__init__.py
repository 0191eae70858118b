"""What the pages say of the small model that ships."""
