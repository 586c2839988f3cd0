import { createHash } from "node:crypto";
import { once } from "node:events";
import { readdir, rm, stat } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { throwFault } from "@muster/faults";

/** A younger socket may not accept connections yet. */
const STARTING_MS = 10_000;

/**
 * Takes the lock of the directory, so that only one local stack runs in it. The lock is a socket with a listener: it is free as soon as its holder has ended,
 * and no process id can be mistaken. Rejects with already_exists while another stack runs.
 */
export async function ensureOnlyOne(directory: string): Promise<AsyncDisposable> {
  // A hash, because the path of a socket is limited to about 100 characters.
  const hash = createHash("sha256").update(resolve(directory)).digest("hex").slice(0, 16);
  const path = join(tmpdir(), `${prefix()}${hash}.sock`);
  for (let attempt = 0; attempt < 3; attempt += 1) {
    const server = await listen(path);
    if (server !== undefined) {
      await removeOrphans(path);
      return { [Symbol.asyncDispose]: () => close(server) };
    }
    if (await answers(path)) break;
    // The process that created the socket was killed.
    await rm(path, { force: true });
  }
  return throwFault({ code: "already_exists", kind: "local stack in", id: directory });
}

function prefix(): string {
  return `muster-${process.getuid?.() ?? 0}-`;
}

/** Removes the sockets of killed stacks whose directories are no longer used, such as those of tests. */
async function removeOrphans(own: string): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const path = join(tmpdir(), name);
    if (path === own || !name.startsWith(prefix()) || !/-[0-9a-f]{16}\.sock$/.test(name)) continue;
    // Another process may have removed it.
    const found = await stat(path).catch(() => undefined);
    if (found === undefined || Date.now() - found.mtimeMs < STARTING_MS) continue;
    if (!(await answers(path))) await rm(path, { force: true });
  }
}

async function listen(path: string): Promise<Server | undefined> {
  const server = createServer((socket) => socket.destroy());
  server.listen(path);
  try {
    await once(server, "listening");
    server.unref();
    return server;
  } catch {
    return undefined;
  }
}

async function answers(path: string): Promise<boolean> {
  const socket = connect(path);
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

async function close(server: Server): Promise<void> {
  server.close();
  await once(server, "close");
}
