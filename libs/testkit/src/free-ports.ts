import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";

/** Ports of 127.0.0.1 that no process listened on just now; held together, so that they differ. Another process may take one before it is used. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer());
  const ports: number[] = [];
  for (const server of servers) {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    ports.push((server.address() as AddressInfo).port);
  }
  for (const server of servers) {
    server.close();
    await once(server, "close");
  }
  return ports;
}

export async function freePort(): Promise<number> {
  const [port = 0] = await freePorts(1);
  return port;
}
