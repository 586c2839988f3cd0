import { nkeys } from "@nats-io/nats-core";
import { buildPermissions } from "./plan-permissions.ts";
import { rights, type NatsUserName } from "./rights.ts";

export const NATS_USERS: readonly NatsUserName[] = Object.keys(rights).filter(isUser);

function isUser(name: string): name is NatsUserName {
  return name in rights;
}

/** Name of the variable of the server's environment that holds the public key of a user: MUSTER_NATS_KEY_WATCHER. */
export function buildKeyVariable(user: NatsUserName): string {
  return `MUSTER_NATS_KEY_${user.toUpperCase().replaceAll("-", "_")}`;
}

/**
 * The block of a nats.conf that lets these users in, and no others, each with its permissions. `keyOf`: its public key, or `$VARIABLE`. `observer`: the key
 * of one more, who may do everything.
 */
export function renderUsers(keyOf: (user: NatsUserName) => string, observer?: string): string {
  const list = (subjects: readonly string[]): string =>
    `[\n${subjects.map((subject) => `          ${JSON.stringify(subject)}`).join("\n")}\n        ]`;
  const users = NATS_USERS.map((user) => {
    const { publish, subscribe } = buildPermissions(user);
    return [
      `    # ${user}`,
      `    {`,
      `      nkey: ${keyOf(user)}`,
      `      permissions: {`,
      `        publish: { allow: ${list(publish)} }`,
      `        subscribe: { allow: ${list(subscribe)} }`,
      `      }`,
      `    }`,
    ].join("\n");
  });
  if (observer !== undefined) users.push(`    { nkey: ${observer} }`);
  return `authorization {\n  users: [\n${users.join("\n")}\n  ]\n}\n`;
}

/** A new key: the public half is for the server, the seed is the secret of the user. */
export function makeNkey(): { readonly publicKey: string; readonly seed: string } {
  const pair = nkeys.createUser();
  return { publicKey: pair.getPublicKey(), seed: new TextDecoder().decode(pair.getSeed()) };
}

/** The public half of a seed. Throws where it is no seed. */
export function getPublicKey(seed: string): string {
  return nkeys.fromSeed(new TextEncoder().encode(seed)).getPublicKey();
}
