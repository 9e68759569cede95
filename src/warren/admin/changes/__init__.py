"""What the HTTP API changes, one module for each family of paths; reading is in `admin.resources`."""
