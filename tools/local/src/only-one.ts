import { createHash } from "node:crypto";
import { once } from "node:events";
import { readdir, rm, stat } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { throwFault } from "@muster/faults";

/** Longer than between the making of a socket and its first answer. */
const STARTING_MS = 10_000;

/**
 * Makes sure that one local stack runs per directory. The lock is a socket that somebody listens on, so it is free the moment its holder is gone, and no
 * process id can be mistaken. Rejects with already_exists when a stack runs.
 */
export async function onlyOne(directory: string): Promise<AsyncDisposable> {
  // A hash, because a path of a socket has about 100 characters at most.
  const hash = createHash("sha256").update(resolve(directory)).digest("hex").slice(0, 16);
  const path = join(tmpdir(), `${prefix()}${hash}.sock`);
  for (let attempt = 0; attempt < 3; attempt += 1) {
    const server = await listen(path);
    if (server !== undefined) {
      await removeOrphans(path);
      return { [Symbol.asyncDispose]: () => close(server) };
    }
    if (await answers(path)) break;
    // Its holder died without a word.
    await rm(path, { force: true });
  }
  return throwFault({ code: "already_exists", kind: "local stack in", id: directory });
}

function prefix(): string {
  return `muster-${process.getuid?.() ?? 0}-`;
}

/** Sockets of stacks that were killed and whose directory nobody uses again, such as those of tests. */
async function removeOrphans(own: string): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const path = join(tmpdir(), name);
    if (path === own || !name.startsWith(prefix()) || !/-[0-9a-f]{16}\.sock$/.test(name)) continue;
    // Gone meanwhile: somebody else has tidied up.
    const found = await stat(path).catch(() => undefined);
    // One that has just been made may not listen yet.
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
