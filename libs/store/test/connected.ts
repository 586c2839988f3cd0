import type { NatsConnection } from "@nats-io/nats-core";
import { connect } from "@nats-io/transport-node";
import type { TestNats } from "@muster/testkit";
import type { Codec } from "../src/index.ts";

/** A connection that reconnects quickly and indefinitely. */
export function connectTo(server: TestNats): Promise<NatsConnection> {
  const { url, token } = server;
  return connect({ servers: url, token, maxReconnectAttempts: -1, reconnectTimeWait: 20, reconnectJitter: 0 });
}

const text = { encoder: new TextEncoder(), decoder: new TextDecoder() };

export function makeJsonCodec<Value>(): Codec<Value> {
  return {
    encode: (value) => text.encoder.encode(JSON.stringify(value)),
    decode: (bytes) => JSON.parse(text.decoder.decode(bytes)) as Value,
  };
}

let names = 0;

/** A name that no other test of this process uses. */
export function makeFreshName(kind: string): string {
  names += 1;
  return `${kind}-${names}`;
}
