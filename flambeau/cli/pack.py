"""`flambeau pack [FOLDER]`: build the pack of common kernels, as the installation does."""


def run(options):
    from flambeau.compiler import pack

    return pack.main([options.folder] if options.folder else [])
