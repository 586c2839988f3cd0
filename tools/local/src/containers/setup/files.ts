import { open, readFile, rename, rm } from "node:fs/promises";

/** The owner of a file. */
export type Owner = { readonly uid: number; readonly gid: number };

/** Writes a file that only its owner can read. The content is synced to a temporary file, which is then renamed: no reader sees a partial file. */
export async function putFile(file: string, content: string | Uint8Array, owner?: Owner): Promise<void> {
  const beside = `${file}.new`;
  // A killed process may have left it.
  await rm(beside, { force: true });
  {
    await using handle = await open(beside, "wx", 0o600);
    await handle.writeFile(content);
    if (owner !== undefined) await handle.chown(owner.uid, owner.gid);
    await handle.sync();
  }
  await rename(beside, file);
}

/** Returns the content of the file; creates it where the file is missing or empty. */
export async function keepFile(file: string, make: () => string): Promise<string> {
  const found = await readText(file);
  if (found !== undefined && found.trim() !== "") return found.trim();
  const made = make();
  await putFile(file, `${made}\n`);
  return made;
}

/** Returns undefined where the file is missing. */
export async function readText(file: string): Promise<string | undefined> {
  return await readFile(file, "utf8").catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  });
}
