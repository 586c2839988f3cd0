/** One line of JSON a call on standard error, with the ids of the active span. The message is a constant; what varies goes into fields. */
export type Logger = {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  child(fields: object): Logger;
};
