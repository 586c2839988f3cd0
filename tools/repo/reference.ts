/** `npm run reference`: writes the generated pages of docs/reference. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { format, resolveConfig } from "prettier";
import { buildDocumentsPage } from "./reference/documents-page.ts";
import { buildEnvironmentPage } from "./reference/environment-page.ts";

const FOLDER = join(import.meta.dirname, "../../docs/reference");

/** The generated pages, by file name. */
const PAGES: Readonly<Record<string, () => string | Promise<string>>> = {
  "environment.md": buildEnvironmentPage,
  "documents.md": buildDocumentsPage,
};

export const GENERATED_PAGES = Object.keys(PAGES);

/** Returns the formatted text of a generated page. */
export async function buildReferencePage(name: string): Promise<string> {
  const filepath = join(FOLDER, name);
  const text = await PAGES[name]?.();
  if (text === undefined) throw new Error(`${name} is not generated`);
  return format(text, { ...(await resolveConfig(filepath)), filepath });
}

export function readCommittedPage(name: string): Promise<string> {
  return readFile(join(FOLDER, name), "utf8");
}

if (import.meta.main)
  for (const name of GENERATED_PAGES) await writeFile(join(FOLDER, name), await buildReferencePage(name));
