import packageFile from "../../../package.json" with { type: "json" };

/** The version of this Muster, from package.json of the root; bundles of a pre-release have theirs. */
export const VERSION: string = packageFile.version;
