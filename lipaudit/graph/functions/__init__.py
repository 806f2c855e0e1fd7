"""Functions of one real variable: built from operations, evaluated on intervals, their largest slope found."""
