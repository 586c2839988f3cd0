/** The values of a proto enum by their names: without the prefix that all of them have, and without `_UNSPECIFIED`. */
export type EnumTable<Name extends string> = {
  readonly numbers: Readonly<Record<Name, number>>;
  /** Undefined for a text that is no name. */
  numberOf(text: string): number | undefined;
  /** Undefined for the unspecified value, an absent field, and a number that only a later version defines. */
  nameOf(number: number | undefined): Name | undefined;
  /** As `nameOf`. Throws where that is undefined; `noun` names the meaning of the number in the message. */
  requireName(number: number | undefined, noun: string): Name;
};

export function makeEnumTable<Name extends string>(numbers: Readonly<Record<Name, number>>): EnumTable<Name> {
  const entries = listEntries(numbers);
  const byText = new Map<string, number>(entries);
  const byNumber = new Map(entries.map(([name, number]) => [number, name]));
  const nameOf = (number = 0): Name | undefined => byNumber.get(number);
  const requireName = (number = 0, noun: string): Name => {
    const name = nameOf(number);
    if (name === undefined) throw new Error(`${number} is no ${noun} that this version knows`);
    return name;
  };
  return { numbers, numberOf: (text) => byText.get(text), nameOf, requireName };
}

/** The table for a domain that writes the names in lowercase: `granted`. */
export function toLowercaseNames<Name extends string>(table: EnumTable<Name>): EnumTable<Lowercase<Name>> {
  return renamed(table, (name) => name.toLowerCase() as Lowercase<Name>);
}

/** The table for a domain that writes the names with one capital letter: `Granted`. */
export function toCapitalizedNames<Name extends string>(
  table: EnumTable<Name>,
): EnumTable<Capitalize<Lowercase<Name>>> {
  return renamed(table, (name) => (name.charAt(0) + name.slice(1).toLowerCase()) as Capitalize<Lowercase<Name>>);
}

function renamed<Name extends string, Renamed extends string>(
  { numbers }: EnumTable<Name>,
  rename: (name: Name) => Renamed,
): EnumTable<Renamed> {
  const entries = listEntries(numbers).map(([name, number]) => [rename(name), number]);
  return makeEnumTable(Object.fromEntries(entries) as Record<Renamed, number>);
}

/** The keys of the record are the names, which Object.entries does not express. */
function listEntries<Name extends string>(numbers: Readonly<Record<Name, number>>): [Name, number][] {
  return Object.entries(numbers) as [Name, number][];
}
