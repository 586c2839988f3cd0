import { expect, it } from "vitest";
import {
  type Credential,
  decideConnection,
  describeConnection,
  type LocalStack,
  type NatsUser,
} from "./decide-connection.ts";

const alive = {
  natsUrl: "nats://local:1",
  natsNkeyFile: "/k",
  natsBackupNkeyFile: "",
  natsTokenFile: "",
  natsCaFile: "",
  containers: undefined,
  alive: true,
};
const nothing = { natsUrl: undefined, variables: {} };
const variables = { MUSTER_NATS_NKEY_FILE: "/mine" };

const environment = { natsUrl: "nats://e:1", variables };

it.each([
  {
    title: "the option before everything",
    known: { option: "nats://o:1", env: environment, local: alive },
    natsUrl: "nats://o:1",
    credential: { variables },
  },
  {
    title: "the environment before the local stack",
    known: { option: undefined, env: environment, local: alive },
    natsUrl: "nats://e:1",
    credential: { variables },
  },
  {
    title: "the local stack with its own key, not with that of the environment",
    known: { option: undefined, env: { natsUrl: undefined, variables }, local: alive },
    natsUrl: "nats://local:1",
    credential: { variables: { MUSTER_NATS_NKEY_FILE: "/k" } },
  },
  {
    title: "the authority of a local stack of containers, too",
    known: { option: undefined, env: nothing, local: { ...alive, natsCaFile: "/ca" } },
    natsUrl: "nats://local:1",
    credential: { variables: { MUSTER_NATS_NKEY_FILE: "/k", MUSTER_NATS_CA_FILE: "/ca" } },
  },
  {
    title: "the token of a local stack on a server that was named",
    known: { option: undefined, env: nothing, local: { ...alive, natsNkeyFile: "", natsTokenFile: "/t" } },
    natsUrl: "nats://local:1",
    credential: { tokenFile: "/t" },
  },
  {
    title: "NATS's usual port when there is nothing else",
    known: { option: undefined, env: nothing, local: undefined },
    natsUrl: "nats://127.0.0.1:4222",
    credential: { variables: {} },
  },
  {
    title: "NATS's usual port when the local stack is gone",
    known: { option: undefined, env: nothing, local: { ...alive, alive: false } },
    natsUrl: "nats://127.0.0.1:4222",
    credential: { variables: {} },
  },
])("takes $title", ({ known, natsUrl, credential }) => {
  const connection = decideConnection({ ...known, user: "cli", local: () => known.local });
  expect(connection.natsUrl).toBe(natsUrl);
  expect(connection.credential).toEqual(credential);
});

it.each<[title: string, user: NatsUser, found: Partial<LocalStack>, credential: Credential]>([
  ["its own key", "backup", { natsBackupNkeyFile: "/b" }, { variables: { MUSTER_NATS_NKEY_FILE: "/b" } }],
  ["the key of the command if no other exists", "backup", {}, { variables: { MUSTER_NATS_NKEY_FILE: "/k" } }],
  ["the only token of a named server", "backup", { natsNkeyFile: "", natsTokenFile: "/t" }, { tokenFile: "/t" }],
  ["nothing of it", "cli", { natsBackupNkeyFile: "/b" }, { variables: { MUSTER_NATS_NKEY_FILE: "/k" } }],
])("gives the backup of a local stack %s", (_title, user, found, credential) => {
  const local = () => ({ ...alive, ...found });
  expect(decideConnection({ user, option: undefined, env: nothing, local }).credential).toEqual(credential);
});

it("reports that the local stack has ended, and how to start it", () => {
  const local = () => ({ ...alive, alive: false });
  const { hint } = decideConnection({ user: "cli", option: undefined, env: nothing, local });
  expect(hint).toBe(
    "the local stack that was here has ended; start a local stack (`npm start -- --keep` in a clone, or `docker compose up --wait`); outside a clone, name its local.json in MUSTER_LOCAL_FILE; or name a server in MUSTER_NATS_URL",
  );
});

it.each([
  ["of containers", "/clone/.muster-compose", /`docker compose up --wait` .* remove \/clone\/\.muster-compose$/],
  ["of processes", undefined, /^see its logs in \.muster\/logs$/],
])(
  "states the next step for a server that does not answer at the address of a local stack %s",
  (_title, containers, says) => {
    const local = () => ({ ...alive, containers });
    expect(decideConnection({ user: "cli", option: undefined, env: nothing, local }).hint).toMatch(says);
  },
);

it.each([
  ["nats://127.0.0.1:4222", "nats://127.0.0.1:4222 (default)"],
  ["nats://me:secret@host:1, nats://other:2", "nats://host:1,nats://other:2 (default)"],
  ["me:secret@host:1", "host:1 (default)"],
])("describes %s without its secrets", (natsUrl, described) => {
  expect(describeConnection({ natsUrl, because: "default" })).toBe(described);
});
