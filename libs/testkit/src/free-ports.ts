import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

/**
 * Systems assign ports from 32768 to connections and to listeners without a fixed port, so they take no port of this range before it is used. Clusters use
 * ports from 30000 as node ports.
 */
const RANGE = { from: 20_000, to: 30_000 };

const given = new Set<number>();

/** Different ports of 127.0.0.1 that no process listens on, none of them returned before in this process. */
export async function findFreePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) {
    const port = randomInt(RANGE.from, RANGE.to);
    if (given.has(port) || !(await isFree(port))) continue;
    given.add(port);
    ports.push(port);
  }
  return ports;
}

export async function findFreePort(): Promise<number> {
  const [port = 0] = await findFreePorts(1);
  return port;
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
  } catch {
    return false;
  }
  server.close();
  await once(server, "close");
  return true;
}
