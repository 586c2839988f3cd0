import type { NatsConnection } from "@nats-io/nats-core";
import type { Bus } from "./bus.ts";

export type NatsOptions = {
  /** nats://host:port, several separated by commas. */
  readonly url: string;
  /** Shown in the server's connection list: the service's name. */
  readonly name: string;
  readonly token?: string;
  /** Told when the connection is lost and when it is back. */
  readonly onStatus?: (status: "disconnected" | "reconnected", detail: string) => void;
};

/** A bus on a NATS connection, which libs/store uses too. Disposing drains: what is in hand is finished, what is buffered is sent. */
export type NatsBus = Bus & { readonly connection: NatsConnection };

/** Connects, and reconnects for ever with back-off. Rejects with FaultError unavailable when the first connection cannot be made within timeoutMs (default 10 s). */
export function connectNats(options: NatsOptions & { readonly timeoutMs?: number }): Promise<NatsBus> {
  void options;
  throw new Error("pending");
}
