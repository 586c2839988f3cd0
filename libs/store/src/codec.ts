import type { AnyMessageType, MessageOf, PropertiesOf } from "@muster/proto";

/** How a value becomes bytes. `decode` throws on bytes that are no such value. */
export type Codec<Value, Input = Value> = { encode(value: Input): Uint8Array; decode(bytes: Uint8Array): Value };

export function protoCodec<Type extends AnyMessageType>(type: Type): Codec<MessageOf<Type>, PropertiesOf<Type>> {
  return {
    encode: (value) => type.encode(value).finish(),
    decode: (bytes) => type.decode(bytes) as MessageOf<Type>,
  };
}
