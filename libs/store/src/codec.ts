import type { AnyMessageType, MessageOf, PropertiesOf } from "@muster/proto";

/** Encodes and decodes values. `decode` throws on bytes that do not encode such a value. */
export type Codec<Value, Input = Value> = { encode(value: Input): Uint8Array; decode(bytes: Uint8Array): Value };

/** A codec of lists whose encoded forms can be concatenated by `join`. */
export type ListCodec<Entry> = Codec<readonly Entry[]> & {
  readonly join?: (parts: readonly Uint8Array[]) => Uint8Array;
};

export function makeProtoCodec<Type extends AnyMessageType>(type: Type): Codec<MessageOf<Type>, PropertiesOf<Type>> {
  return {
    encode: (value) => type.encode(value).finish(),
    decode: (bytes) => type.decode(bytes) as MessageOf<Type>,
  };
}

/** Encodes JSON, so that `nats kv get` shows it. Decodes bytes that are no JSON as undefined, which the reader interprets. */
export const jsonText: Codec<unknown> = {
  encode: (value) => new TextEncoder().encode(JSON.stringify(value)),
  decode: (bytes) => {
    try {
      const value: unknown = JSON.parse(new TextDecoder().decode(bytes));
      return value;
    } catch {
      return undefined;
    }
  },
};
