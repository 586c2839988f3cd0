import { createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import { inspect } from "node:util";
import { expect, it } from "vitest";
import { NatsLink } from "./nats-link.ts";

/** Returns a port without a listener. */
async function closedPort(): Promise<number> {
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = listener.address() as AddressInfo;
  listener.close();
  await once(listener, "close");
  return port;
}

it.each(["nats://user:s3cret@HOST", "user:s3cret@HOST", "nats://HOST, nats://s3cret@HOST"])(
  "names the servers that it cannot reach, without what is secret in %s",
  async (form) => {
    const host = `127.0.0.1:${await closedPort()}`;
    const url = form.replaceAll("HOST", host);
    const error: unknown = await NatsLink.open({ url, name: "test", timeoutMs: 50 }).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toMatchObject({ fault: { code: "unavailable", dependency: "nats" } });
    const text = inspect(error, { depth: null, showHidden: true });
    expect(text).toContain(`connecting to nats://${host}`);
    expect(text).not.toContain("s3cret");
  },
);
