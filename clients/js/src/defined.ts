/** A map without its unset fields: on the wire, and in what users compare, they are left out rather than undefined. */

type Optional<T> = { [Key in keyof T]: undefined extends T[Key] ? Key : never }[keyof T];

export type Defined<T> = Omit<T, Optional<T>> & { [Key in Optional<T>]?: Exclude<T[Key], undefined> };

export function defined<T extends object>(fields: T): Defined<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Defined<T>;
}
