import type { Cli, Connected } from "../cli.ts";
import { describeConnection } from "../domain/decide-connection.ts";
import { contact, type Contact } from "./contact.ts";

/** Contact with the services over this connection, reported on standard error, or by `say`. */
export function keepContact(cli: Cli, connected: Connected, say = cli.io.err): Contact & Disposable {
  const { now, pause, connection } = cli;
  const hint = (): string => connection().hint;
  const kept = contact({ address: describeConnection(connection()), hint, now, pause, say });
  const listening = connected.onLink((state) => {
    kept.link(state);
  });
  return { ...kept, [Symbol.dispose]: () => listening[Symbol.dispose]() };
}
