import { createHash } from "node:crypto";
import { once } from "node:events";
import { rm } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { throwFault } from "@muster/faults";

/**
 * Makes sure that one local stack runs per directory. The lock is a socket that somebody listens on, so it is free the moment its holder is gone, and no
 * process id can be mistaken. Rejects with already_exists when a stack runs.
 */
export async function onlyOne(directory: string): Promise<AsyncDisposable> {
  // A hash, because a path of a socket has about 100 characters at most.
  const hash = createHash("sha256").update(resolve(directory)).digest("hex").slice(0, 16);
  const path = join(tmpdir(), `muster-${process.getuid?.() ?? 0}-${hash}.sock`);
  for (let attempt = 0; attempt < 3; attempt += 1) {
    const server = await listen(path);
    if (server !== undefined) return { [Symbol.asyncDispose]: () => close(server) };
    if (await answers(path)) break;
    // Its holder died without a word.
    await rm(path, { force: true });
  }
  return throwFault({ code: "already_exists", kind: "local stack in", id: directory });
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
