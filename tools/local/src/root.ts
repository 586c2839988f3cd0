import { fileURLToPath } from "node:url";
import { dirname, join } from "node:path";

/** Root of the repository. */
export const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../../..");
