import packageFile from "../../../package.json" with { type: "json" };

/** The version of this Muster, from package.json of the root; a bundle of a pre-release has its own version. */
export const VERSION: string = packageFile.version;
