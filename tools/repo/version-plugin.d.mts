import type { Plugin } from "esbuild";

export declare const VERSION: string;
export declare function versionPlugin(version?: string): Plugin;
