"""What turns a commit into the files of a release, and checks them as their users will use them."""
