"""The `ttray` command: one module per subcommand, each a thin layer over the package."""
