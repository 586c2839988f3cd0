import type { AnyMessageType, MessageOf, PropertiesOf } from "@muster/proto";

/** How a value becomes bytes. `decode` throws on bytes that are no such value. */
export type Codec<Value, Input = Value> = { encode(value: Input): Uint8Array; decode(bytes: Uint8Array): Value };

/** A codec of lists in which the bytes of two lists, put together by `join`, are those of both. */
export type ListCodec<Entry> = Codec<readonly Entry[]> & {
  readonly join?: (parts: readonly Uint8Array[]) => Uint8Array;
};

export function protoCodec<Type extends AnyMessageType>(type: Type): Codec<MessageOf<Type>, PropertiesOf<Type>> {
  return {
    encode: (value) => type.encode(value).finish(),
    decode: (bytes) => type.decode(bytes) as MessageOf<Type>,
  };
}

/** JSON, so that `nats kv get` shows it. Other bytes are read as undefined, which the reader interprets. */
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
