import { connect } from "@nats-io/transport-node";
import { expect, it } from "vitest";
import { startTestNats } from "./nats.ts";

it("starts a server that requires its token, and restarts it on the same port after a kill", async () => {
  await using server = await startTestNats();
  await expect(connect({ servers: server.url, reconnect: false })).rejects.toThrow();
  const first = await connect({ servers: server.url, token: server.token });
  await first.flush();
  await first.close();
  await server.kill();
  await server.start();
  await using second = await connect({ servers: server.url, token: server.token });
  await second.flush();
  expect(second.getServer()).toContain(new URL(server.url).port);
});
