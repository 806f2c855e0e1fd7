"""What every experiment needs: its registry, records of results, tables, plots, files, clocks and networks."""
