/** Describes one field of a message as data. */
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
  /** Fields by their names in TypeScript and in JSON. */
  readonly fields: Readonly<Record<string, FieldShape>>;
};

export type EnumShape = {
  readonly doc?: string;
  /** Numbers by the names of enum tables, without the unspecified value. */
  readonly numbers: Readonly<Record<string, number>>;
};

/** Every message and enum of proto/, by its full name, for programs that convert any message to and from JSON. */
export type Shapes = {
  readonly messages: Readonly<Record<string, MessageShape>>;
  readonly enums: Readonly<Record<string, EnumShape>>;
};
