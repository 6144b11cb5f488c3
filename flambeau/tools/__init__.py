"""Tools of the house itself: what writes the stubs and the generated pages of docs/."""
