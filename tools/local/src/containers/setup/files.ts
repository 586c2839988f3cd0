import { open, readFile, rename, rm } from "node:fs/promises";

/** Who may read a file. */
export type Owner = { readonly uid: number; readonly gid: number };

/** Writes a file that its owner alone can read: beside its place, to the disk, and then there, so that nobody ever finds a part of it. */
export async function put(file: string, content: string | Uint8Array, owner?: Owner): Promise<void> {
  const beside = `${file}.new`;
  // Left by one that was killed.
  await rm(beside, { force: true });
  {
    await using handle = await open(beside, "wx", 0o600);
    await handle.writeFile(content);
    if (owner !== undefined) await handle.chown(owner.uid, owner.gid);
    await handle.sync();
  }
  await rename(beside, file);
}

/** What the file holds, which is made at the first time, and again where it is empty. */
export async function keep(file: string, make: () => string): Promise<string> {
  const found = await readText(file);
  if (found !== undefined && found.trim() !== "") return found.trim();
  const made = make();
  await put(file, `${made}\n`);
  return made;
}

/** undefined: there is no such file. */
export async function readText(file: string): Promise<string | undefined> {
  return await readFile(file, "utf8").catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  });
}
