import { expect, it } from "vitest";
import { decideConnection, describeConnection } from "./decide-connection.ts";

const alive = { natsUrl: "nats://local:1", natsTokenFile: "/t", alive: true };
const nothing = { natsUrl: undefined, token: undefined };

const environment = { natsUrl: "nats://e:1", token: "s" };

it.each([
  {
    title: "the option before everything",
    known: { option: "nats://o:1", env: environment, local: alive },
    natsUrl: "nats://o:1",
    token: { text: "s" },
  },
  {
    title: "the environment before the local stack",
    known: { option: undefined, env: environment, local: alive },
    natsUrl: "nats://e:1",
    token: { text: "s" },
  },
  {
    title: "the local stack with its own token, not that of the environment",
    known: { option: undefined, env: { natsUrl: undefined, token: "s" }, local: alive },
    natsUrl: "nats://local:1",
    token: { file: "/t" },
  },
  {
    title: "NATS's usual port when there is nothing else",
    known: { option: undefined, env: nothing, local: undefined },
    natsUrl: "nats://127.0.0.1:4222",
    token: undefined,
  },
  {
    title: "NATS's usual port when the local stack is gone",
    known: { option: undefined, env: nothing, local: { ...alive, alive: false } },
    natsUrl: "nats://127.0.0.1:4222",
    token: undefined,
  },
])("takes $title", ({ known, natsUrl, token }) => {
  const connection = decideConnection(known);
  expect(connection.natsUrl).toBe(natsUrl);
  expect(connection.token).toEqual(token);
});

it("says that the local stack is gone, and how to start it", () => {
  const { hint } = decideConnection({ option: undefined, env: nothing, local: { ...alive, alive: false } });
  expect(hint).toBe(
    "the local stack that was here has ended; start the local stack with `npm start -- --keep`, or name a server with MUSTER_NATS_URL",
  );
});

it.each([
  ["nats://127.0.0.1:4222", "nats://127.0.0.1:4222 (default)"],
  ["nats://me:secret@host:1, nats://other:2", "nats://host:1,nats://other:2 (default)"],
  ["me:secret@host:1", "host:1 (default)"],
])("describes %s without what is secret in it", (natsUrl, described) => {
  expect(describeConnection({ natsUrl, because: "default" })).toBe(described);
});
