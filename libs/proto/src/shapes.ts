/** One field of a message, as data. */
export type FieldShape = {
  /** The comment of the .proto file. */
  readonly doc?: string;
  /** A scalar type of proto3, or the full name of a message or an enum. */
  readonly type: string;
  readonly many?: "list" | "map";
  /** A message shows that the field is missing. Others then have the zero value of their type. */
  readonly optional?: true;
};

export type MessageShape = {
  readonly doc?: string;
  /** By their names in TypeScript and in JSON. */
  readonly fields: Readonly<Record<string, FieldShape>>;
};

export type EnumShape = {
  readonly doc?: string;
  /** Without the unspecified value, by the names that enum tables use. */
  readonly numbers: Readonly<Record<string, number>>;
};

/** Every message and enum of proto/, by its full name: for programs that read and write any message as JSON. */
export type Shapes = {
  readonly messages: Readonly<Record<string, MessageShape>>;
  readonly enums: Readonly<Record<string, EnumShape>>;
};
