import type { Reader, Writer } from "protobufjs/minimal.js";

/** The static side of a generated message class: the part that sends and receives one. */
export type MessageType<Message, Properties = Message> = {
  new (parts?: PartsOf<Message>): Message;
  create(parts?: PartsOf<Message>): Message;
  encode(message: Properties, writer?: Writer): Writer;
  decode(reader: Reader | Uint8Array, length?: number): Message;
  toObject(message: Message, options?: object): Record<string, unknown>;
  getTypeUrl(prefix?: string): string;
};

/** Fields that are left out have their defaults; those of a message in a field are not filled in. */
type PartsOf<Message> = { readonly [Field in keyof Message]?: Message[Field] | undefined };

/** The fields of a `oneof`. At most the one that `Name` names is present. */
export type OneOf<Name extends string, Fields> = OneOfPart<Name, Fields, keyof Fields | undefined>;

type OneOfPart<Name extends string, Fields, Present> = Present extends unknown
  ? { readonly [Key in Name]: Present } & {
      readonly [Key in keyof Fields]: Key extends Present ? Fields[Key] : undefined;
    }
  : never;

// The generated classes do not share a base; variance makes `unknown` unusable for "any message type".
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type AnyMessageType = MessageType<any, any>;

export type MethodDescriptor = {
  /** Name in the .proto file: `Reserve`. */
  readonly name: string;
  /** Name in subjects: `list-pools`. */
  readonly verb: string;
  /** True without side effects: `idempotency_level` of the .proto file. */
  readonly isRead: boolean;
  readonly request: AnyMessageType;
  readonly reply: AnyMessageType;
};

/** A `service` of a .proto file, as the bus needs it. */
export type ServiceDescriptor = {
  /** Full name: `muster.reservation.v1.ReservationService`. */
  readonly name: string;
  /** Name in subjects: `reservation`. */
  readonly area: string;
  readonly methods: Readonly<Record<string, MethodDescriptor>>;
};

/** The decoded form of a message. */
export type MessageOf<Type extends AnyMessageType> = InstanceType<Type>;
/** The input of an encoder: every field optional. */
export type PropertiesOf<Type extends AnyMessageType> = Parameters<Type["encode"]>[0];
