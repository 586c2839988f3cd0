import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { expect, it } from "vitest";
import { findFreePorts } from "./free-ports.ts";

it("returns different ports that can be listened on", async () => {
  const ports = [...(await findFreePorts(5)), ...(await findFreePorts(5))];
  expect(new Set(ports).size).toBe(10);
  for (const port of ports) {
    const server = createServer().listen(port, "127.0.0.1");
    await once(server, "listening");
    server.close();
    await once(server, "close");
  }
});

it.runIf(process.platform === "linux")("returns no port that the system assigns to connections", async () => {
  const [lowest = 0] = readFileSync("/proc/sys/net/ipv4/ip_local_port_range", "utf8").split(/\s+/).map(Number);
  expect(Math.max(...(await findFreePorts(50)))).toBeLessThan(lowest);
});
