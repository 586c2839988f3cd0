import { readdir, readFile, stat } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { gzipSync } from "node:zlib";

/** A file of an archive; a path that ends with a slash is a folder. */
export type Entry = { readonly path: string; readonly content: Buffer; readonly executable?: boolean };

const BLOCK = 512;
const MAX_NAME = 100;
const MAX_PREFIX = 155;
/** Position of the operating system in the header of gzip, and the value for an unknown one. */
const GZIP_OS = 9;
const UNKNOWN_OS = 255;

/** Builds an archive in the format ustar, sorted by path, with owner 0 and one time in seconds. The order of the entries does not change the bytes. */
export function buildTar(entries: readonly Entry[], timeS: number): Buffer {
  const sorted = entries.toSorted((a, b) => (a.path < b.path ? -1 : 1));
  const repeated = sorted.find(({ path }, index) => path === sorted[index - 1]?.path);
  if (repeated !== undefined) throw new Error(`${repeated.path} is twice in the archive`);
  const blocks = sorted.flatMap((entry) => {
    const padding = Buffer.alloc((BLOCK - (entry.content.length % BLOCK)) % BLOCK);
    return [buildHeader(entry, timeS), entry.content, padding];
  });
  return Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK)]);
}

/** Compresses with the same bytes on every operating system. */
export function gzip(content: Buffer): Buffer {
  const compressed = gzipSync(content);
  compressed[GZIP_OS] = UNKNOWN_OS;
  return compressed;
}

/** Reads all files of a folder, and follows links. Paths have slashes and begin with the prefix. */
export async function readEntries(folder: string, prefix: string): Promise<Entry[]> {
  const entries: Entry[] = [];
  for (const name of (await readdir(folder)).toSorted()) {
    const file = join(folder, name);
    const stats = await stat(file);
    const path = prefix + relative(folder, file).replaceAll(sep, "/");
    if (stats.isDirectory()) entries.push(...(await readEntries(file, `${path}/`)));
    else entries.push({ path, content: await readFile(file), executable: (stats.mode & 0o100) !== 0 });
  }
  return entries;
}

/** Adds an entry for each folder of the files, as layers of images need them. */
export function withFolders(entries: readonly Entry[]): Entry[] {
  const folders = entries.flatMap(({ path }) =>
    path
      .split("/")
      .slice(0, -1)
      .map((_, index, parts) => `${parts.slice(0, index + 1).join("/")}/`),
  );
  return [...[...new Set(folders)].map((path) => ({ path, content: Buffer.alloc(0) })), ...entries];
}

function buildHeader({ path, content, executable = false }: Entry, timeS: number): Buffer {
  const isFolder = path.endsWith("/");
  const { prefix, name } = splitPath(path);
  const header = Buffer.alloc(BLOCK);
  const octal = (value: number, digits: number): string => `${value.toString(8).padStart(digits, "0")}\0`;
  header.write(name, 0);
  header.write(octal(isFolder || executable ? 0o755 : 0o644, 7), 100);
  header.write(octal(0, 7), 108);
  header.write(octal(0, 7), 116);
  header.write(octal(content.length, 11), 124);
  header.write(octal(timeS, 11), 136);
  header.write(" ".repeat(8), 148);
  header.write(isFolder ? "5" : "0", 156);
  header.write("ustar\x0000", 257);
  header.write(prefix, 345);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${octal(sum, 6)} `, 148);
  return header;
}

/** Splits at the first slash that leaves a name of at most 100 bytes. */
function splitPath(path: string): { readonly prefix: string; readonly name: string } {
  if (Buffer.byteLength(path) <= MAX_NAME) return { prefix: "", name: path };
  for (let at = path.indexOf("/"); at >= 0; at = path.indexOf("/", at + 1)) {
    const [prefix, name] = [path.slice(0, at), path.slice(at + 1)];
    if (name !== "" && Buffer.byteLength(name) <= MAX_NAME && Buffer.byteLength(prefix) <= MAX_PREFIX)
      return { prefix, name };
  }
  throw new Error(
    `${path} is too long for an archive: a name has at most ${MAX_NAME} bytes, its folders ${MAX_PREFIX}`,
  );
}
