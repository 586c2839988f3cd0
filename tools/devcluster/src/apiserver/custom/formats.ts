/** Whether a text has a format of OpenAPI. Formats that are not here are not checked. */
export const FORMATS: Readonly<Record<string, (text: string) => boolean>> = {
  "date-time": isDateTime,
};

function isDateTime(text: string): boolean {
  return (
    /^\d{4}-\d\d-\d\d([Tt ])\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)$/.test(text) &&
    isDay(text.slice(0, 10)) &&
    !Number.isNaN(Date.parse(text.replace(" ", "T")))
  );
}

function isDay(text: string): boolean {
  const ms = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text);
}
