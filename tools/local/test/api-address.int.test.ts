import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { findFreePorts } from "@muster/testkit";
import { expect, it } from "vitest";
import { chooseApiAddress } from "../src/api-address.ts";

it("uses the requested port, and refuses one that is in use or invalid", async () => {
  const [free = 0] = await findFreePorts(1);
  expect(await chooseApiAddress(String(free))).toBe(`127.0.0.1:${free}`);
  const other = createServer().listen(0, "127.0.0.1");
  await once(other, "listening");
  const { port } = other.address() as AddressInfo;
  await expect(chooseApiAddress(String(port))).rejects.toThrow(`--api-port: port ${port} of 127.0.0.1 is in use`);
  other.close();
  for (const text of ["0", "65536", "http", "-1", ""])
    await expect(chooseApiAddress(text)).rejects.toThrow(`--api-port: "${text}" is not a port from 1 to 65535`);
});

it("chooses a free port where the default port is in use", async () => {
  // If this process cannot bind the port, another process already uses it.
  const holder = createServer().on("error", () => undefined);
  await new Promise((resolve) => holder.once("error", resolve).listen(8480, "127.0.0.1", () => resolve(undefined)));
  const address = await chooseApiAddress(undefined);
  expect(address).toMatch(/^127\.0\.0\.1:[1-9]\d*$/);
  expect(address).not.toBe("127.0.0.1:8480");
  holder.close();
});
