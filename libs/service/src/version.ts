import packageFile from "../package.json" with { type: "json" };

/** The version of this Muster: all packages of the repository carry the same. */
export const VERSION: string = packageFile.version;
