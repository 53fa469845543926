// The books of the shop: their titles, and the one in a limited edition.

export const edition = { title: 'Red Horse Hill, signed', copies: 100 }

export const titles = [
  'Red Horse Hill',
  'Sparkplug of the Hornets',
  'Bulldozer',
  'The Long Trains Roll',
  'Who Rides in the Dark?',
  edition.title,
]
